module github.com/longhorn/go-spdk-helper

go 1.26.0
