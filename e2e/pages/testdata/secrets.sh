describe
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
