# Tells the name of a machine, the address at which it was reached, and its public key.
folder="$root/etc/kubernetes/kops/pki/machine"
mkdir -p "$folder"
if [ ! -s "$folder/private.pem" ]; then
  openssl ecparam -name prime256v1 -genkey -noout -out "$folder/private.pem.new"
  mv "$folder/private.pem.new" "$folder/private.pem"
fi
openssl ec -in "$folder/private.pem" -pubout -out "$folder/public.pem" 2>/dev/null
hostname
set -- ${SSH_CONNECTION:-}
echo "${3:-}"
cat "$folder/public.pem"
