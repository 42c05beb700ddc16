      local imds=http://169.254.169.254/latest role keys id secret session
      local -a ask=(curl -sf --noproxy '*' --max-time 10)
      token="$("${ask[@]}" -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 300' "${imds}/api/token")"
      token="$(option header "X-aws-ec2-metadata-token: ${token}")"
      role="$("${ask[@]}" --config - "${imds}/meta-data/iam/security-credentials/" <<< "${token}")"
      keys="$("${ask[@]}" --config - "${imds}/meta-data/iam/security-credentials/${role}" <<< "${token}")"
      id="$(sed -n 's/.*"AccessKeyId" *: *"\([^"]*\)".*/\1/p' <<< "${keys}")"
      secret="$(sed -n 's/.*"SecretAccessKey" *: *"\([^"]*\)".*/\1/p' <<< "${keys}")"
      session="$(sed -n 's/.*"Token" *: *"\([^"]*\)".*/\1/p' <<< "${keys}")"
      if [[ -z "${id}" ]]; then
        failed credentials "the metadata service gave none${role:+ of the role ${role}}"
        return 1
      fi
