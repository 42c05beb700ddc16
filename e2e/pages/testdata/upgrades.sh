REVISION() { echo 1; }

# The second block is for a cluster whose machines still run the version before.
before_2() {
  kops delete cluster --yes
  run --kubernetes-version 1.35.4
  kops upgrade cluster --yes
}
