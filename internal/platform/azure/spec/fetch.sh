      local rest="${url#azureblob://}" suffix=core.windows.net
      case "${AZURE_ENVIRONMENT:-}" in
        AzureChinaCloud) suffix=core.chinacloudapi.cn ;;
        AzureUSGovernment*) suffix=core.usgovcloudapi.net ;;
      esac
      token="$(curl -sf --max-time 20 -H 'Metadata: true' 'http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https://storage.azure.com/' |
        sed -e 's/.*"access_token" *: *"\([^"]*\)".*/\1/')"
      if [[ -z "${token}" ]]; then
        failed credentials "the metadata service gave none"
        return 1
      fi
      option header "Authorization: Bearer ${token}" | get "${file}" "https://${rest%%/*}.blob.${suffix}/${rest#*/}" -H 'x-ms-version: 2017-11-09' --config -
