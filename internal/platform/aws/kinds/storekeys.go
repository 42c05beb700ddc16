package kinds

import (
	"context"
	"fmt"
	"path"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsapi"
	"kops.local/kops/internal/platform/aws/awsname"
)

// StoreKeys are the access keys of a cluster's store, which its control planes read: a Systems
// Manager parameter, encrypted with the account's key for parameters (alias/aws/ssm). The
// parameter's name identifies the cluster. Terraform does not manage it, because its state would
// contain the keys.
type StoreKeys struct {
	Name string           `res:"forbid"`
	Keys resource.Content // as storekeys.Pair encodes them
}

// StoreKeySets is the kind of StoreKeys.
var StoreKeySets = resource.Kind[StoreKeys, *Client]{
	Name:   "aws_store_keys",
	Direct: true,
	API:    apiSSM,
	Phase:  resource.Security,
	Key:    func(k *StoreKeys) string { return k.Name },
	List:   listStoreKeys,
	Create: func(ctx context.Context, c *Client, k *StoreKeys) error { return putStoreKeys(ctx, c, k, false) },
	Update: []resource.Setter[StoreKeys, *Client]{{Fields: []string{"Keys"}, Set: func(ctx context.Context, c *Client, _, want *StoreKeys) error {
		return putStoreKeys(ctx, c, want, true)
	}}},
	Delete: func(ctx context.Context, c *Client, k *StoreKeys) error {
		return fault.IgnoreGone(c.SSM.Call(ctx, "DeleteParameter", awsapi.Fields{"Name": k.Name}, nil))
	},
}

// listStoreKeys reads the parameter of a cluster that wants one, or is being deleted. Without
// permission to read it, a cluster that wants none has none.
func listStoreKeys(ctx context.Context, c *Client, s resource.Scope) ([]*StoreKeys, error) {
	if !s.All && len(s.Names) == 0 {
		return nil, nil
	}
	name := awsname.StoreKeys(s.Cluster)
	found, err := awsapi.List[struct{ Name, Value string }](ctx, c.SSM, "GetParametersByPath", "Parameters", awsapi.Fields{"Path": path.Dir(name), "WithDecryption": true})
	if len(s.Names) == 0 && fault.Is(err, fault.Denied) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find the keys of the store: %w", err)
	}
	var out []*StoreKeys
	for _, p := range found {
		if p.Name == name {
			out = append(out, &StoreKeys{Name: name, Keys: resource.SecretText(p.Value)})
		}
	}
	return out, nil
}

func putStoreKeys(ctx context.Context, c *Client, k *StoreKeys, again bool) error {
	return c.SSM.Call(ctx, "PutParameter", awsapi.Fields{"Name": k.Name, "Value": k.Keys.Value().Text(), "Type": "SecureString",
		"Overwrite": again, "Description": "Keys of the server of the cluster's store, for its control planes"}, nil)
}
