#!/bin/bash
# For pixi: puts the package that `pixi run build` installed into the environment.
if [ -f install/local_setup.bash ]; then
  . install/local_setup.bash
  export PATH="$PWD/install/lib/rbd_control:$PATH"
fi
