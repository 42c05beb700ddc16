aws s3api create-bucket --bucket my-state-store --region us-east-1
export KOPS_STATE_STORE=s3://my-state-store
kops create cluster --zones us-east-1a --networking kubenet cluster.example.com
export KOPS_CLUSTER_NAME=cluster.example.com
mkdir -p ~/.docker
echo '{"auths": {"registry.example.com": {"auth": "dXNlcjpwYXNzd29yZA=="}}}' > ~/.docker/config.json
cat > config.yaml <<END
apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets]
  providers:
  - aescbc: {keys: [{name: key1, secret: MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=}]}
  - identity: {}
END
