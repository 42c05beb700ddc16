module kops.local/kops/tools/kubeaccepts

go 1.26.0
