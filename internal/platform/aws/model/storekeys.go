package model

import (
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/kinds"
)

// storeKeys are the keys of the server of the cluster's store, for control planes.
func (m *model) storeKeys() ([]resource.Node, error) {
	if m.StoreKeys.Place == "" || m.StoreKeys.IsZero() {
		return nil, nil
	}
	return []resource.Node{kinds.StoreKeySets.New("s3-keys."+m.name, kinds.StoreKeys{Name: m.StoreKeys.Place, Keys: resource.SecretText(m.StoreKeys.Encode())})}, nil
}

// grantStoreKeys lets machines read them. The account's own key for parameters decrypts for
// everyone who may read a parameter (AWS Systems Manager User Guide, "Parameter Store
// SecureString").
func (m *model) grantStoreKeys() []statement {
	if m.StoreKeys.Place == "" {
		return nil
	}
	return []statement{allow(list("ssm:GetParameter"), one(m.arn("ssm", "*:*:parameter"+m.StoreKeys.Place)))}
}
