# Unpacks the files of the control plane: each takes the place of another at once, and
# those that updates own go when they are not among them.
folder="$root$folder"
if [ -e "$folder/config" ]; then
  cat > /dev/null # the state store itself is here
  exit 0
fi
mkdir -p "$folder"
cd "$folder"
rm -rf .new .list
mkdir .new
tar -x -C .new -f -
(cd .new && find . -type f) > .list
for owned in addons igconfig manifests pki/machines; do
  [ -d "$owned" ] || continue
  find "./$owned" -type f | while read -r file; do
    grep -qxF "$file" .list || rm -f "$file"
  done
done
while read -r file; do
  mkdir -p "$(dirname "$file")"
  mv ".new/$file" "$file"
done < .list
rm -rf .new .list
