aws s3api create-bucket --bucket my-state-store --region us-east-1
export KOPS_STATE_STORE=s3://my-state-store KOPS_CLUSTER_NAME=cluster.example.com
kops create cluster --zones us-east-1a --networking kubenet --admin-access 203.0.113.0/24 --ssh-access 203.0.113.0/24 cluster.example.com --dry-run -o yaml > cluster.yaml
