aws s3api create-bucket --bucket my-state-store --region us-east-1
export KOPS_STATE_STORE=s3://my-state-store
kops create cluster --zones us-east-1a --networking kubenet cluster.example.com
export KOPS_CLUSTER_NAME=cluster.example.com
