from coordinator.protocol import kio_alone as kio_alone  # before any module of this package imports kio
