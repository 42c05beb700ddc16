aws s3api create-bucket --bucket my-state-store --region us-east-1
export KOPS_STATE_STORE=s3://my-state-store
