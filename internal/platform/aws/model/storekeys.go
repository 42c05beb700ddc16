package model

import (
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
)

// storeKeys returns the access keys of the cluster's store, for control planes.
func (m *model) storeKeys() ([]resource.Node, error) {
	if m.StoreKeys.Place == "" || m.StoreKeys.IsZero() {
		return nil, nil
	}
	return []resource.Node{kinds.StoreKeySets.New("s3-keys."+m.name, kinds.StoreKeys{Name: m.StoreKeys.Place, Keys: resource.SecretText(m.StoreKeys.Encode())})}, nil
}

// grantStoreKeys allows machines to read the keys. Anyone with access to a parameter can decrypt it
// with the account's default key for parameters (AWS Systems Manager User Guide, "Parameter Store
// SecureString").
func (m *model) grantStoreKeys() []statement {
	if m.StoreKeys.Place == "" {
		return nil
	}
	return []statement{allowStatement(textList("ssm:GetParameter"), oneText(m.arn("ssm", "*:*:parameter"+m.StoreKeys.Place)))}
}
