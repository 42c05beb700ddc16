mkdir -p ~/.ssh
echo 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk3Yk1c9e0v5t2y1l7eYw0nq5r5c3n1tV8sXg5c9qQ2 me' > ~/.ssh/id_ed25519.pub

NAME() { machine nodes-fsn1; }

# hcloud server delete NAME
hcloud() {
  number=$(kubectl get node "$3" -o jsonpath='{.spec.providerID}')
  curl --fail --silent --show-error --output /dev/null --request DELETE --header "Authorization: Bearer $HCLOUD_TOKEN" "$HCLOUD_ENDPOINT/servers/${number#hcloud://}"
}
