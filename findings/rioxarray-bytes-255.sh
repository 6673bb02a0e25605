#!/usr/bin/env bash
# What: reproject of bytes without a nodata value; PyPI rioxarray 0.19.0, rasterio 1.4.4, xarray 2026.9.0, numpy 2.4.6.
# Guess: all 256 values are data, before and after: an image that is white, 255, stays so, and its average is 255.
# Happens: 255 becomes the nodata value of the result (_FillValue 255), though no point is missing. So the average of pixels
#   that are all 255 is 254, and a 255 that stays is missing once the result is written and read: the mean of 10 and fifteen
#   times 255 is 10, not 239.7. Nothing is said. For 16 bits it is 65535. Floats have NaN, and are right. The manual has 'an
#   appropriate value by dtype' for pixels that the source does not cover, and no word of those that it does.
# Who meets it: aerial pictures and masks (0 and 255) that are reprojected or made coarser: white is missing.
# Instead: image.astype("float32") before it, or reproject(..., nodata=0) where 0 is no data.
set -euo pipefail
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
python3 -m venv --without-pip "$T/v"
python3 -m pip -q --python "$T/v/bin/python" install rioxarray==0.19.0 rasterio==1.4.4 xarray==2026.9.0 numpy==2.4.6
cat >"$T/program.py" <<'P'
import warnings
import numpy as np
import rioxarray
import xarray
from rasterio.enums import Resampling
for kind in UserWarning, RuntimeWarning:
    warnings.simplefilter("error", kind)    # one would end the program
for kind, top in ("uint8", 200), ("uint8", 255), ("uint16", 65535), ("float32", 255):
    image = xarray.DataArray(np.full((4, 4), top, kind), dims=("y", "x"),
                             coords={"y": [3.5, 2.5, 1.5, 0.5], "x": [0.5, 1.5, 2.5, 3.5]}).rio.write_crs("EPSG:32632")
    average = image.rio.reproject("EPSG:32632", resolution=2, resampling=Resampling.average)
    image[0, 0] = 10
    same = image.rio.reproject("EPSG:32632")
    same.rio.to_raster("out.tif")
    read = rioxarray.open_rasterio("out.tif", masked=True)
    print(f"{kind}: average of all {top}: {sorted(set(average.values.ravel().tolist()))}, nodata {image.rio.nodata},",
          f"then {same.rio.nodata}; mean of 10, 15 x {top}: {float(image.mean()):.1f},",
          f"written and read {float(read.mean()):.1f}")
P
cd "$T"
v/bin/python program.py | tee out
diff - out <<'P'
uint8: average of all 200: [200], nodata None, then 255; mean of 10, 15 x 200: 188.1, written and read 188.1
uint8: average of all 255: [254], nodata None, then 255; mean of 10, 15 x 255: 239.7, written and read 10.0
uint16: average of all 65535: [65534], nodata None, then 65535; mean of 10, 15 x 65535: 61439.7, written and read 10.0
float32: average of all 255: [255.0], nodata None, then nan; mean of 10, 15 x 255: 239.7, written and read 239.7
P
echo "as observed: 255 becomes the nodata value of bytes that had none"
