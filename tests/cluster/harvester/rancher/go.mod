// Its controllers are generated here by ../generate.
module github.com/rancher/rancher

go 1.26.0
