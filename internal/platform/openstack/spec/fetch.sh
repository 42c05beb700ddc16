      local conf=/etc/kubernetes/cloud.config auth region id secret answer storage
      # of VARIABLE KEY: a part of the login, for JSON: from the environment, or from the file that only root may read
      of() {
        sed 's/[\\"]/\\&/g' <<< "${!1:-$(sed -n "s/^ *$2 *= *\"\{0,1\}\([^\"]*\)\"\{0,1\} *\$/\1/p" "${conf}" 2> /dev/null | head -n 1)}"
      }
      auth="$(of OS_AUTH_URL auth-url)"
      auth="${auth%/}"
      region="$(of OS_REGION_NAME region)"
      id="$(of OS_APPLICATION_CREDENTIAL_ID application-credential-id)"
      secret="$(of OS_APPLICATION_CREDENTIAL_SECRET application-credential-secret)"
      if [[ -z "${id}" ]]; then
        failed credentials "${conf} has no application-credential-id"
        return 1
      fi
      answer="$(curl -s --include --max-time 20 -H 'Content-Type: application/json' --data @- "${auth%/v3}/v3/auth/tokens" \
        <<< "{\"auth\":{\"identity\":{\"methods\":[\"application_credential\"],\"application_credential\":{\"id\":\"${id}\",\"secret\":\"${secret}\"}}}}")"
      token="$(sed -n 's/^x-subject-token: *//Ip' <<< "${answer}" | tr -d '\r')"
      # the catalogue has the endpoints of a service before its type
      storage="$(sed 's/"endpoints"/\n/g' <<< "${answer}" | grep '"type": *"object-store"' | tr '{' '\n' |
        grep '"interface": *"public"' | grep "\"region\": *\"${region:-[^\"]*}\"" | sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' | head -n 1)"
      if [[ -z "${token}" ]]; then
        failed credentials "the identity service gave none"
        return 1
      elif [[ -z "${storage}" ]]; then
        failed other "there is no object storage in the region ${region}"
        return 1
      fi
      option header "X-Auth-Token: ${token}" | get "${file}" "${storage%/}/${url#swift://}" --config -
