      place="https://${bucket}.s3.${AWS_REGION}.amazonaws.com"
      [[ "${AWS_REGION}" == cn-* ]] && place="${place}.cn"
      # the bucket may be in another region, which S3 tells everybody who asks in the wrong one
      region="$(curl -s --head --connect-timeout 20 --max-time 60 "${place}/" | sed -n 's/^x-amz-bucket-region: *\([a-z0-9-]*\).*/\1/Ip')"
      region="${region:-${AWS_REGION}}"
      { option user "${id}:${secret}"; option header "x-amz-security-token: ${session}"; } |
        get "${file}" "${place/.s3.${AWS_REGION}./.s3.${region}.}/${key}" --aws-sigv4 "aws:amz:${region}:s3" -H "${empty}" --config -
