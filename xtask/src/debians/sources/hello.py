"""Says who it is, after all ranks have added up their numbers."""
from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
print(f"rank {world.rank} of {world.size}, sum {total}", flush=True)
