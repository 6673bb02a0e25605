//! Environment modules: `module load wiglaf/openmpi` does what `eval "$(wiglaf env openmpi)"` does, and `module unload`
//! takes it back.
//!
//! Each of the two programs that read module files has its own: Environment Modules' Tcl and Lmod's Lua. Both have one
//! script read by bash, and note what changes; Lmod 8.6 cannot do that in a module file of Tcl.

use std::path::Path;

use wiglaf_base::shell::quoted;

/// Networks and MPIs, which make a module's name together, and what it says of itself.
const MODULES: [[&str; 3]; 4] = [
    ["wiglaf", "openmpi", "Open MPI over Wiglaf: mpirun"],
    ["wiglaf", "mpich", "MPICH over Wiglaf: srun, mpiexec"],
    ["tcp", "openmpi", "Open MPI over TCP: mpirun"],
    ["tcp", "mpich", "MPICH over TCP: srun, mpiexec"],
];

/// What reads module files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    /// Environment Modules.
    Tcl,
    /// Lmod.
    Lmod,
}

impl System {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Tcl, Self::Lmod];

    /// What it is called in names of folders.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcl => "tcl",
            Self::Lmod => "lmod",
        }
    }

    /// The folder that Debian's package of it has for an administrator's files.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Tcl => "/etc/environment-modules/modules",
            Self::Lmod => "/etc/lmod/modules",
        }
    }

    /// Module files, by their paths in such a folder, for where [`script`] and Wiglaf's program are.
    pub(crate) fn files(self, script: &Path, program: &Path) -> Vec<(String, String)> {
        let (script, program) = (script.display(), program.display());
        let file = |[network, mpi, says]: [&str; 3]| match self {
            Self::Tcl => (
                format!("{network}/{mpi}"),
                format!(
                    "#%Module1.0\n# Written by Wiglaf.\nmodule-whatis {{{says}}}\nconflict wiglaf tcp\n\
                     source-sh bash {{{script}}} {network} {mpi}\n\
                     # source-sh says nothing of a script that fails.\n\
                     if {{[module-info mode load] && [getenv WIGLAF_MODULE] ne \"{network}/{mpi}\"}} {{\n    \
                     catch {{exec {{{program}}} env {mpi} --transport {network}}} why\n    \
                     puts stderr [lindex [split $why \\n] 0]\n    break\n}}\n"
                ),
            ),
            Self::Lmod => (
                format!("{network}/{mpi}.lua"),
                format!(
                    "-- Written by Wiglaf.\nwhatis(\"{says}\")\nfamily(\"wiglaf\")\n\
                     source_sh(\"bash\", [[{script} {network} {mpi}]])\n"
                ),
            ),
        };
        MODULES.into_iter().map(file).collect()
    }
}

/// What bash reads for a module: `$1` is the network, `$2` the MPI.
pub(crate) fn script(program: &Path) -> String {
    format!(
        "# Written by Wiglaf: modules have bash read this, and note what changes.\n\
         said=$({} env \"$2\" --transport \"$1\") || return 1\neval \"$said\"\nunset said\n\
         export WIGLAF_MODULE=\"$1/$2\"\n",
        quoted(&program.display().to_string())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_names_its_network_and_its_mpi() {
        for system in System::ALL {
            let files = system.files(Path::new("/s"), Path::new("/usr/bin/wiglaf"));
            assert_eq!(files.len(), 4);
            for (name, text) in files {
                let (network, mpi) = name.trim_end_matches(".lua").split_once('/').unwrap();
                assert!(text.contains(&format!("{network} {mpi}")), "{name}: {text}");
            }
        }
    }
}
