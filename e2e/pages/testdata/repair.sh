aws s3api create-bucket --bucket my-state-store --region us-east-1
export KOPS_STATE_STORE=s3://my-state-store
kops create cluster --zones us-east-1a --networking kubenet cluster.example.com
export KOPS_CLUSTER_NAME=cluster.example.com
kops create instancegroup nodes-batch --subnet us-east-1a --edit=false
kops edit instancegroup nodes-batch --set spec.image=099720109477/ubuntu/images/hvm-ssd/ubuntu-trusty-14.04-amd64-server-20170727
