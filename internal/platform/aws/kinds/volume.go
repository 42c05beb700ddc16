package kinds

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// Volume is an EBS volume. Changes that would require a new volume are forbidden, because the
// volume contains the cluster's data.
type Volume struct {
	Zone      string `res:"forbid" tf:"availability_zone"`
	Encrypted bool   `res:"forbid" tf:"encrypted,zero"`
	// KMSKey is the id, alias or ARN of a key; it is not compared with the volume's key.
	KMSKey     string `res:"writeonly" tf:"kms_key_id"`
	SizeGiB    int    `tf:"size"`
	Type       string `tf:"type"`                     // "gp3", "io2", …
	IOPS       int    `res:"default" tf:"iops"`       // 0 accepts the type's default
	Throughput int    `res:"default" tf:"throughput"` // MiB/s; 0 accepts the type's default
	Tags       Tags   `tf:"tags"`

	ID string `res:"out,id" out:"id"`
}

// etcdTagPrefix, followed by the name of an etcd cluster, is the key of
// the tag that marks its volumes.
const etcdTagPrefix = "k8s.io/etcd/"

// Tags that Kubernetes storage drivers set to name a volume's claim.
const (
	claimNamespaceTag = "kubernetes.io/created-for/pvc/namespace"
	claimNameTag      = "kubernetes.io/created-for/pvc/name"
)

// describeData describes the data on a volume.
func describeData(v *Volume) string {
	if claim := v.Tags[claimNameTag]; claim != "" {
		return "data of the claim " + v.Tags[claimNamespaceTag] + "/" + claim
	}
	for key := range v.Tags {
		if etcd, ok := strings.CutPrefix(key, etcdTagPrefix); ok {
			return "data of etcd " + etcd
		}
	}
	return ""
}

// Volumes is the kind of Volume. A tag with the prefix etcdTagPrefix distinguishes it from the
// volumes that controllers in the cluster create.
var Volumes = resource.Kind[Volume, *Client]{
	Name:   "aws_ebs_volume",
	API:    apiEC2,
	Tasks:  []string{"EBSVolume"},
	Early:  true,
	Key:    func(v *Volume) string { return cmp.Or(v.Tags[TagName], v.ID) }, // not every storage driver sets names
	Holds:  describeData,
	List:   listVolumes,
	Create: createVolume,
	Update: []resource.Setter[Volume, *Client]{
		{Fields: []string{"SizeGiB", "Type", "IOPS", "Throughput"}, Set: modifyVolume},
		tagSetter(func(v *Volume) (string, map[string]string) { return v.ID, v.Tags }),
	},
	Delete: func(ctx context.Context, c *Client, v *Volume) error {
		_, err := c.EC2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &v.ID})
		return fault.IgnoreGone(err)
	},
}

var volumeDescriber = describer[ec2types.Volume]{
	what: "volumes", id: "volume-id",
	tags: func(v ec2types.Volume) []ec2types.Tag { return v.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.Volume, error) {
		return pages(ctx, ec2.NewDescribeVolumesPaginator(c.EC2, &ec2.DescribeVolumesInput{Filters: f}),
			func(o *ec2.DescribeVolumesOutput) []ec2types.Volume { return o.Volumes })
	},
}

// listVolumes lists the volumes that kops created; if s.All is set, also those that storage drivers
// created, but not those that are deleted with their machine.
func listVolumes(ctx context.Context, c *Client, s resource.Scope) ([]*Volume, error) {
	list, err := volumeDescriber.listOwned(ctx, c, s)
	list = slices.DeleteFunc(slices.Clone(list), func(d ec2types.Volume) bool {
		if s.All {
			return slices.ContainsFunc(d.Attachments, func(a ec2types.VolumeAttachment) bool { return aws.ToBool(a.DeleteOnTermination) })
		}
		return !etcdVolume(d.Tags)
	})
	return convert(list, err, func(d ec2types.Volume) *Volume {
		return &Volume{Zone: aws.ToString(d.AvailabilityZone), Encrypted: aws.ToBool(d.Encrypted), KMSKey: aws.ToString(d.KmsKeyId),
			SizeGiB: int(aws.ToInt32(d.Size)), Type: string(d.VolumeType), IOPS: int(aws.ToInt32(d.Iops)),
			Throughput: int(aws.ToInt32(d.Throughput)), Tags: tagMap(d.Tags), ID: aws.ToString(d.VolumeId)}
	})
}

func etcdVolume(tags []ec2types.Tag) bool {
	return slices.ContainsFunc(tags, func(t ec2types.Tag) bool { return strings.HasPrefix(aws.ToString(t.Key), etcdTagPrefix) })
}

func createVolume(ctx context.Context, c *Client, v *Volume) error {
	o, err := c.EC2.CreateVolume(ctx, &ec2.CreateVolumeInput{
		AvailabilityZone: &v.Zone, Encrypted: &v.Encrypted, KmsKeyId: stringOrNil(v.KMSKey), Size: int32OrNil(v.SizeGiB),
		VolumeType: ec2types.VolumeType(v.Type), Iops: int32OrNil(v.IOPS), Throughput: int32OrNil(v.Throughput),
		TagSpecifications: tagSpec(ec2types.ResourceTypeVolume, v.Tags)})
	if err == nil {
		v.ID = aws.ToString(o.VolumeId)
	}
	return err
}

func modifyVolume(ctx context.Context, c *Client, have, want *Volume) error {
	_, err := c.EC2.ModifyVolume(ctx, &ec2.ModifyVolumeInput{VolumeId: &have.ID, Size: int32OrNil(want.SizeGiB),
		VolumeType: ec2types.VolumeType(want.Type), Iops: int32OrNil(want.IOPS), Throughput: int32OrNil(want.Throughput)})
	return err
}
