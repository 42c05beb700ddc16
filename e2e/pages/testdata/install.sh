echo kops > kops-VERSION-linux-amd64.tar.gz
sha256sum kops-VERSION-linux-amd64.tar.gz > SHA256SUMS
