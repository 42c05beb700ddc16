package kinds

import (
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/observe"
	"kops.local/kops/internal/engine/resource"
)

// LaunchTemplate specifies how machines are created. A change creates a new version.
type LaunchTemplate struct {
	Name              string              `res:"forbid" tf:"name"`
	BlockDevices      []BlockDevice       `tf:"block_device_mappings,block"`
	Credits           CreditSpecification `tf:"credit_specification,block"`
	Profile           InstanceProfileRef  `tf:"iam_instance_profile,block"`
	ImageID           string              `tf:"image_id"`
	Market            MarketOptions       `tf:"instance_market_options,block"`
	InstanceType      string              `tf:"instance_type"`
	KeyName           resource.Value      `tf:"key_name"`
	Lifecycle         Lifecycle           `res:"writeonly" tf:"lifecycle,block"`
	Metadata          MetadataOptions     `tf:"metadata_options,block"`
	Monitoring        Monitoring          `tf:"monitoring,block,zero"`
	NetworkInterfaces []NetworkInterface  `tf:"network_interfaces,block"`
	Placement         Placement           `tf:"placement,block"`
	TagSpecifications []TagSpecification  `tf:"tag_specifications,block"`
	// EBSOptimized gives a machine dedicated bandwidth to its volumes. Newer types always have it.
	EBSOptimized bool `tf:"ebs_optimized"`
	// UserData is the plain text; it is encoded when it is sent.
	UserData resource.Content `tf:"user_data,file64"`
	Tags     Tags             `tf:"tags"` // of the template, not of the machines

	ID            string `res:"out,id" out:"id"`
	LatestVersion string `res:"out,volatile" out:"version" tf:"latest_version"`
}

// BlockDevice is a disk of a new machine: a volume, or an ephemeral one.
type BlockDevice struct {
	Device  string `tf:"device_name"`
	EBS     EBS    `tf:"ebs,block"`
	Virtual string `tf:"virtual_name"` // "ephemeral0", …
}

// EBS is a volume that is created with a machine.
type EBS struct {
	DeleteOnTermination bool   `tf:"delete_on_termination,zero"`
	Encrypted           bool   `tf:"encrypted,zero"`
	IOPS                int    `tf:"iops"`
	KMSKey              string `tf:"kms_key_id"`
	Throughput          int    `tf:"throughput"` // MiB/s
	SizeGiB             int    `tf:"volume_size"`
	Type                string `tf:"volume_type"`
}

// CreditSpecification applies to burstable machine types.
type CreditSpecification struct {
	CPU string `tf:"cpu_credits"` // "standard" or "unlimited"
}

// InstanceProfileRef refers to a machine's instance profile, by name or by ARN.
type InstanceProfileRef struct {
	Name resource.Value `tf:"name"`
	ARN  resource.Value `tf:"arn"`
}

// MarketOptions request spot machines. The zero value means on demand.
type MarketOptions struct {
	Type string      `tf:"market_type"` // "spot"
	Spot SpotOptions `tf:"spot_options,block"`
}

// SpotOptions specify the maximum price of a spot machine and what happens on interruption.
type SpotOptions struct {
	BlockDurationMinutes int    `tf:"block_duration_minutes"`
	Interruption         string `tf:"instance_interruption_behavior"` // "hibernate", "stop", "terminate"
	MaxPrice             string `tf:"max_price"`                      // dollars per hour
}

// Lifecycle is Terraform's lifecycle block. The constructor sets it.
type Lifecycle struct {
	CreateBeforeDestroy bool `tf:"create_before_destroy"`
}

// MetadataOptions configure the instance metadata service.
type MetadataOptions struct {
	Endpoint     string `tf:"http_endpoint"`               // "enabled" or "disabled"
	IPv6         string `tf:"http_protocol_ipv6"`          // "enabled" or "disabled"
	HopLimit     int    `tf:"http_put_response_hop_limit"` // 1 to 64
	Tokens       string `tf:"http_tokens"`                 // "required" or "optional"
	InstanceTags string `tf:"instance_metadata_tags"`      // "enabled" or "disabled"
}

// Monitoring is detailed monitoring, one sample per minute.
type Monitoring struct {
	Enabled bool `tf:"enabled,zero"`
}

// NetworkInterface is a network interface of a new machine; the first is device 0.
type NetworkInterface struct {
	PublicIP            bool             `tf:"associate_public_ip_address,zero"`
	DeleteOnTermination bool             `tf:"delete_on_termination,zero"`
	IPv6Addresses       int              `tf:"ipv6_address_count,zero"`
	SecurityGroups      []resource.Value `tf:"security_groups"`
}

// Placement specifies the hosts that machines run on.
type Placement struct {
	Tenancy string `tf:"tenancy"` // "default", "dedicated", "host"
}

// TagSpecification sets tags on what is created with a machine.
type TagSpecification struct {
	Resource string            `tf:"resource_type"` // "instance", "volume", "network-interface"
	Tags     map[string]string `tf:"tags"`
}

// LaunchTemplates is the kind of LaunchTemplate.
var LaunchTemplates = resource.Kind[LaunchTemplate, *Client]{
	Name:  "aws_launch_template",
	API:   apiEC2,
	Tasks: []string{"LaunchTemplate"},
	Early: true,
	Group: func(t *LaunchTemplate) string { return t.Tags[api.LabelInstanceGroup] },
	MadeOf: []string{"BlockDevices", "Credits", "Profile", "ImageID", "Market", "InstanceType", "KeyName", "Metadata", "Monitoring",
		"NetworkInterfaces", "Placement", "TagSpecifications", "EBSOptimized", "UserData"},
	Key:    func(t *LaunchTemplate) string { return t.Name },
	Tidy:   func(t *LaunchTemplate) { t.Lifecycle.CreateBeforeDestroy = true },
	List:   listLaunchTemplates,
	Create: createLaunchTemplate,
	Update: []resource.Setter[LaunchTemplate, *Client]{
		{Fields: []string{"BlockDevices", "Credits", "EBSOptimized", "Profile", "ImageID", "Market", "InstanceType", "KeyName", "Metadata",
			"Monitoring", "NetworkInterfaces", "Placement", "TagSpecifications", "UserData"}, Set: addVersion},
		tagSetter(func(t *LaunchTemplate) (string, map[string]string) { return t.ID, t.Tags }),
	},
	Delete: func(ctx context.Context, c *Client, t *LaunchTemplate) error {
		_, err := c.EC2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &t.ID})
		return fault.IgnoreGone(err)
	},
}

var launchTemplateDescriber = describer[ec2types.LaunchTemplate]{
	what: "launch templates", id: "launch-template-id",
	tags: func(t ec2types.LaunchTemplate) []ec2types.Tag { return t.Tags },
	describe: func(ctx context.Context, c *Client, f []ec2types.Filter) ([]ec2types.LaunchTemplate, error) {
		return pages(ctx, ec2.NewDescribeLaunchTemplatesPaginator(c.EC2, &ec2.DescribeLaunchTemplatesInput{Filters: f, MaxResults: aws.Int32(pageSize)}),
			func(o *ec2.DescribeLaunchTemplatesOutput) []ec2types.LaunchTemplate { return o.LaunchTemplates })
	},
}

// pageSize is the maximum number of templates or versions in one response.
const pageSize = 200

func listLaunchTemplates(ctx context.Context, c *Client, s resource.Scope) ([]*LaunchTemplate, error) {
	list, err := launchTemplateDescriber.listOwned(ctx, c, s)
	if err != nil {
		return nil, err
	}
	versions, err := oncePerSnapshot(ctx, c, "latest versions of the launch templates of "+s.Cluster, func(ctx context.Context) (map[string]ec2types.LaunchTemplateVersion, error) {
		return latestVersions(ctx, c, list)
	})
	if err != nil {
		return nil, err
	}
	return convert(list, nil, func(d ec2types.LaunchTemplate) *LaunchTemplate {
		t := &LaunchTemplate{}
		v := versions[aws.ToString(d.LaunchTemplateId)]
		if v.LaunchTemplateData != nil {
			t = templateOf(v.LaunchTemplateData)
		}
		t.Name, t.Tags, t.ID = aws.ToString(d.LaunchTemplateName), tagMap(d.Tags), aws.ToString(d.LaunchTemplateId)
		t.LatestVersion = strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10)
		return t
	})
}

// latestVersions returns the latest version of each template, by template ID. It requests those
// that listLatestVersions does not return one by one.
func latestVersions(ctx context.Context, c *Client, list []ec2types.LaunchTemplate) (map[string]ec2types.LaunchTemplateVersion, error) {
	missing := map[string]bool{}
	for _, d := range list {
		missing[aws.ToString(d.LaunchTemplateId)] = true
	}
	out, err := listLatestVersions(ctx, c, missing)
	if err != nil {
		return nil, err
	}
	for id := range out {
		delete(missing, id)
	}
	singly, err := observe.EachOf(ctx, slices.Sorted(maps.Keys(missing)), func(ctx context.Context, id string) ([]*ec2types.LaunchTemplateVersion, error) {
		o, err := c.EC2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{
			LaunchTemplateId: &id, Versions: []string{Latest}})
		if err != nil || len(o.LaunchTemplateVersions) == 0 {
			return nil, fault.IgnoreGone(err)
		}
		return []*ec2types.LaunchTemplateVersion{&o.LaunchTemplateVersions[0]}, nil
	})
	for _, v := range singly {
		out[aws.ToString(v.LaunchTemplateId)] = *v
	}
	return out, err
}

// listLatestVersions returns the latest versions of templates. It lists the latest versions of all
// templates of the account, page by page. For one template it returns an empty map, because the
// list is not worth it, as for a server that does not support it.
func listLatestVersions(ctx context.Context, c *Client, ids map[string]bool) (map[string]ec2types.LaunchTemplateVersion, error) {
	const few = 1
	out := map[string]ec2types.LaunchTemplateVersion{}
	if len(ids) <= few {
		return out, nil
	}
	p := ec2.NewDescribeLaunchTemplateVersionsPaginator(c.EC2, &ec2.DescribeLaunchTemplateVersionsInput{
		Versions: []string{Latest}, MaxResults: aws.Int32(pageSize)})
	for p.HasMorePages() && len(out) < len(ids) {
		page, err := p.NextPage(ctx)
		if fault.Is(err, fault.Permanent) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, v := range page.LaunchTemplateVersions {
			if id := aws.ToString(v.LaunchTemplateId); ids[id] {
				out[id] = v
			}
		}
	}
	return out, nil
}

// Latest is the API's name for the latest version.
const Latest = "$Latest"

func createLaunchTemplate(ctx context.Context, c *Client, t *LaunchTemplate) error {
	o, err := c.EC2.CreateLaunchTemplate(ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &t.Name, LaunchTemplateData: templateData(t),
		TagSpecifications: tagSpec(ec2types.ResourceTypeLaunchTemplate, t.Tags)})
	if err == nil {
		t.ID = aws.ToString(o.LaunchTemplate.LaunchTemplateId)
		t.LatestVersion = strconv.FormatInt(aws.ToInt64(o.LaunchTemplate.LatestVersionNumber), 10)
	}
	return err
}

// addVersion creates a version with all of want, and makes it the default version.
func addVersion(ctx context.Context, c *Client, have, want *LaunchTemplate) error {
	o, err := c.EC2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: &have.ID, LaunchTemplateData: templateData(want)})
	if err != nil {
		return err
	}
	have.LatestVersion = strconv.FormatInt(aws.ToInt64(o.LaunchTemplateVersion.VersionNumber), 10)
	_, err = c.EC2.ModifyLaunchTemplate(ctx, &ec2.ModifyLaunchTemplateInput{
		LaunchTemplateId: &have.ID, DefaultVersion: &have.LatestVersion})
	return err
}
