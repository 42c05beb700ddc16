package kinds

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// KeyPair is a public SSH key that new machines accept.
type KeyPair struct {
	// Name contains the key's fingerprint, so a different key has a different name.
	Name string `res:"forbid" tf:"key_name"`
	// PublicKey is one line of an authorized_keys file. Comparisons use the name instead.
	PublicKey resource.Content `res:"writeonly" tf:"public_key,file"`
	Tags      Tags             `tf:"tags"`

	ID     string `res:"out,id" out:"id"`                    // the name, as in Terraform
	PairID string `res:"out,id" out:"pair" tf:"key_pair_id"` // "key-…"
}

// KeyPairs is the kind of KeyPair.
var KeyPairs = resource.Kind[KeyPair, *Client]{
	Name:  "aws_key_pair",
	API:   apiEC2,
	Phase: resource.Security,
	Tasks: []string{"SSHKey"},
	Key:   func(k *KeyPair) string { return k.Name },
	List: func(ctx context.Context, c *Client, s resource.Scope) ([]*KeyPair, error) {
		list, err := keyPairDescriber.listOwned(ctx, c, s)
		return convert(list, err, func(d ec2types.KeyPairInfo) *KeyPair {
			name := aws.ToString(d.KeyName)
			return &KeyPair{Name: name, Tags: tagMap(d.Tags), ID: name, PairID: aws.ToString(d.KeyPairId)}
		})
	},
	Create: func(ctx context.Context, c *Client, k *KeyPair) error {
		o, err := c.EC2.ImportKeyPair(ctx, &ec2.ImportKeyPairInput{
			KeyName: &k.Name, PublicKeyMaterial: []byte(k.PublicKey.Value().Text()),
			TagSpecifications: tagSpec(ec2types.ResourceTypeKeyPair, k.Tags)})
		if err == nil {
			k.ID, k.PairID = k.Name, aws.ToString(o.KeyPairId)
		}
		return err
	},
	Update: []resource.Setter[KeyPair, *Client]{
		tagSetter(func(k *KeyPair) (string, map[string]string) { return k.PairID, k.Tags }),
	},
	Delete: func(ctx context.Context, c *Client, k *KeyPair) error {
		_, err := c.EC2.DeleteKeyPair(ctx, &ec2.DeleteKeyPairInput{KeyName: &k.Name})
		return fault.IgnoreGone(err)
	},
}

var keyPairDescriber = describer[ec2types.KeyPairInfo]{
	what: "key pairs", id: "key-pair-id",
	tags: func(k ec2types.KeyPairInfo) []ec2types.Tag { return k.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.KeyPairInfo, error) {
		o, err := c.EC2.DescribeKeyPairs(ctx, &ec2.DescribeKeyPairsInput{Filters: f})
		if err != nil {
			return nil, err
		}
		return o.KeyPairs, nil // the API does not paginate
	},
}
