module kops.local/kops/tools/kubernetes

go 1.26.0
