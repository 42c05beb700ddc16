      token="$(curl -sf --max-time 20 -H 'Metadata-Flavor: Google' http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token |
        sed -e 's/.*"access_token" *: *"\([^"]*\)".*/\1/')"
      if [[ -z "${token}" ]]; then
        failed credentials "the metadata service gave none"
        return 1
      fi
      option header "Authorization: Bearer ${token}" | get "${file}" "https://storage.googleapis.com/${url#gs://}" --config -
