kops get all -o yaml > cluster.yaml
