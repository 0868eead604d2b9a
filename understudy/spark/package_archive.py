"""Packs this program into an archive, and sends it to the executors of a session.

python -m understudy.spark.package_archive [FOLDER]      write understudy.zip, for `spark-submit --py-files`
"""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

from pyspark.sql import SparkSession

from understudy.spark.sessions import is_connect
from understudy.spark.settings import ROOT


def package_archive(folder: Path) -> Path:
    """Write the package of this program into an archive, which executors on other machines import."""
    archive = folder / "understudy.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        # In a checkout some folders of the package are links, which `rglob` does not follow.
        for parent, _, names in os.walk(ROOT / "understudy", followlinks=True):
            for name in names:
                if name.endswith((".py", ".sql")):
                    file = Path(parent, name)
                    written.write(file, file.relative_to(ROOT))
    return archive


def add_package(spark: SparkSession, archive: Path) -> None:
    """Send an archive to the executors. Classic Spark reads the file until the session ends."""
    if is_connect(spark):
        spark.addArtifact(str(archive), pyfile=True)
    else:
        spark.sparkContext.addPyFile(str(archive))


if __name__ == "__main__":
    print(package_archive(Path(sys.argv[1] if sys.argv[1:] else ".")))
