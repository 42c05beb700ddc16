      # another's S3, whose keys are where only control planes may read them
      place="https://ssm.${AWS_REGION}.amazonaws.com"
      [[ "${AWS_REGION}" == cn-* ]] && place="${place}.cn"
      keys="$({ option user "${id}:${secret}"; option header "x-amz-security-token: ${session}"; } | curl -s --max-time 20 --aws-sigv4 "aws:amz:${AWS_REGION}:ssm" --config - \
        -H 'Content-Type: application/x-amz-json-1.1' -H 'X-Amz-Target: AmazonSSM.GetParameter' \
        --data "{\"Name\":\"${S3_KEYS#*:}\",\"WithDecryption\":true}" "${place}/")"
      id="$(sed -n 's/.*"Value" *: *"\([A-Za-z0-9+\/=]*\)".*/\1/p' <<< "${keys}" | base64 -d)"
      if [[ -z "${id}" ]]; then
        failed credentials "${S3_KEYS} gave none: $(sed -n 's/.*"__type" *: *"\([^"]*\)".*/\1/p' <<< "${keys}")"
        return 1
      fi
      [[ "${S3_ENDPOINT}" == *://* ]] || S3_ENDPOINT="https://${S3_ENDPOINT}"
      option user "${id}" | get "${file}" "${S3_ENDPOINT%/}/${bucket}/${key}" -H "${empty}" --aws-sigv4 "aws:amz:${S3_REGION:-us-east-1}:s3" --config -
