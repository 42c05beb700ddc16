export KOPS_STATE_STORE=s3://my-state-store
export EDITOR=true # which leaves objects as they are

# describe describes the cluster of the pages.
describe() {
  kops create cluster --zones us-east-1a --networking kubenet cluster.example.com "$@"
  export KOPS_CLUSTER_NAME=cluster.example.com
}

# run creates it, and waits until its machines are nodes.
run() {
  describe "$@"
  kops update cluster --yes --admin
  kops validate cluster --wait 5m --interval 1s
}

# machine prints the name of the first machine of a group.
machine() {
  kubectl get nodes -l kops.k8s.io/instancegroup="$1" -o jsonpath='{.items[0].metadata.name}'
}
