kops create cluster --zones us-east-1a,us-east-1b,us-east-1d --control-plane-zones us-east-1a --networking kubenet cluster.example.com --dry-run -o yaml |
  sed s/control-plane-us-east-1a/control-plane-a/ > cluster.yaml
kops create -f cluster.yaml
export KOPS_CLUSTER_NAME=cluster.example.com
