module kubevirt.io/containerized-data-importer

go 1.26.0
