aws s3api create-bucket --bucket my-state-store --region us-east-1
kops create cluster --state s3://my-state-store --zones us-east-1a --networking kubenet cluster.example.com
