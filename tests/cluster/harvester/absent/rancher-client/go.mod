module github.com/rancher/rancher/pkg/client

go 1.26.0
