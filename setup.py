"""The package for setuptools and colcon."""

import sys
from glob import glob
from pathlib import Path

from setuptools import find_packages, setup

package_name = "rbd_control"

nodes = (
    "contact_aware_controller",
    "contact_detector",
    "contact_guard",
    "demo_scenario",
    "hand_guide",
    "joint_state_player",
    "passivity_controller",
    "simulated_arm",
)

# `ros2 launch` and `ros2 run` look for executables in lib/rbd_control. colcon puts them there
# (setup.cfg); in a wheel, whose entry points are in bin/, these files pass on to them.
passed_on = {"bdist_wheel", "editable_wheel"} & {*sys.argv}

# ROS 2 itself as wheels, for a Python environment without a ROS installation.
ros = [
    "ros-rclpy[fastrtps]",
    "ros-action-msgs",
    "ros-builtin-interfaces",
    "ros-diagnostic-msgs",
    "ros-geometry-msgs",
    "ros-lifecycle-msgs",
    "ros-rcl-interfaces",
    "ros-rosgraph-msgs",
    "ros-sensor-msgs",
    "ros-std-msgs",
    "ros-std-srvs",
    "ros-trajectory-msgs",
    "ros-visualization-msgs",
]

# `rbd-control view`: the page in the browser.
view = ["viser>=1.1,<2", "yourdfpy>=0.0.57"]

# `rbd-control replay --fleet` on a Dask cluster, and its tables as Parquet.
fleet = ["distributed>=2024.1", "pyarrow>=14"]

# HTML reports with interactive plots.
report = ["bokeh>=3.4,<4"]

# Robot descriptions as xacro files.
xacro = ["xacrodoc>=2,<3"]

test = [
    *fleet,
    *report,
    *view,
    "example-robot-data",
    "hypothesis",
    "mujoco",
    "mypy",
    "pin",
    "playwright",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "ruff==0.17.*",
    "setuptools>=70.1",
    "sympy",
    "types-PyYAML",
    "types-defusedxml",
    *xacro,
]

# What the benchmark compares with; the headers are for its C++ part.
bench = [*fleet, "cmeel-eigen", "example-robot-data", "mujoco", "pin"]

# Others that take part in the benchmark where they are installed: C code that CasADi generates of
# Pinocchio's algorithms, Drake, frax (JAX), and a clang.
rivals = {"casadi": ["casadi"], "clang": ["ziglang"], "drake": ["drake"], "frax": ["frax"]}

# The documentation site.
docs = ["furo", "myst-parser>=4", "sphinx>=8"]

setup(
    name=package_name,
    version="0.1.0",
    description="Contact detection without force sensors and passive control of robot arms",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="rbd_control maintainers",
    maintainer="rbd_control maintainers",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords=["robotics", "ROS 2", "rigid-body dynamics", "contact detection", "passivity"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering",
        "Typing :: Typed",
    ],
    python_requires=">=3.10",
    packages=find_packages(include=[package_name, f"{package_name}.*"]),
    package_data={
        package_name: ["py.typed"],
        f"{package_name}.reports": ["assets/report.css", "assets/report.js"],
        f"{package_name}.robot": ["arm7.urdf"],
    },
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{package_name}"]),
        (f"share/{package_name}", ["package.xml"]),
        (f"share/{package_name}/launch", sorted(glob("launch/*.launch.py"))),
        *(
            (f"share/{package_name}/{folder.rstrip('/')}", sorted(glob(f"{folder}/*.*")))
            for folder in ("config", *sorted(glob("config/*/")))
        ),
        *([(f"lib/{package_name}", sorted(glob("scripts/*")))] if passed_on else []),
        (f"share/{package_name}/security", sorted(glob("security/*.xml"))),
        (f"share/{package_name}/security/common", sorted(glob("security/common/*.xml"))),
        (f"share/{package_name}/urdf", ["rbd_control/robot/arm7.urdf"]),
    ],
    install_requires=[
        "defusedxml",
        "matplotlib",
        "numba",
        "numpy",
        "pyyaml",
        "rich",
        "rosbags>=0.11.9",
        "scipy",
    ],
    extras_require={
        **rivals,
        "bench": bench,
        "docs": docs,
        "fleet": fleet,
        "report": report,
        "ros": ros,
        "symbolic": ["sympy"],
        "test": test,
        "view": view,
        "xacro": xacro,
    },
    entry_points={
        "console_scripts": [
            "rbd-control = rbd_control.cli.main:main",
            *(f"{node} = rbd_control.startup.executables:{node}" for node in nodes),
        ]
    },
    # Numba keeps its compiled code beside the sources, so they must be files.
    zip_safe=False,
)
