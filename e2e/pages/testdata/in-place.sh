NODE() { machine nodes-us-east-1a; }
HASH() {
  aws s3 cp --quiet s3://my-state-store/cluster.example.com/igconfig/node/nodes-us-east-1a/nodeupconfig.yaml nodeupconfig.yaml
  openssl dgst -sha256 -binary nodeupconfig.yaml | base64
}
