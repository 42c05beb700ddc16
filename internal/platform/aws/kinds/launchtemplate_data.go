package kinds

import (
	"encoding/base64"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/engine/resource"
)

// templateData converts a template to a request.
func templateData(t *LaunchTemplate) *ec2types.RequestLaunchTemplateData {
	d := &ec2types.RequestLaunchTemplateData{
		ImageId: stringOrNil(t.ImageID), InstanceType: ec2types.InstanceType(t.InstanceType), KeyName: stringOrNil(t.KeyName.Text()),
		Monitoring: &ec2types.LaunchTemplatesMonitoringRequest{Enabled: &t.Monitoring.Enabled},
	}
	for _, b := range t.BlockDevices {
		d.BlockDeviceMappings = append(d.BlockDeviceMappings, blockDeviceData(b))
	}
	if t.EBSOptimized {
		d.EbsOptimized = &t.EBSOptimized
	}
	if t.Credits.CPU != "" {
		d.CreditSpecification = &ec2types.CreditSpecificationRequest{CpuCredits: &t.Credits.CPU}
	}
	if name, arn := t.Profile.Name.Text(), t.Profile.ARN.Text(); name+arn != "" {
		d.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: stringOrNil(name), Arn: stringOrNil(arn)}
	}
	if t.Market.Type != "" {
		s := t.Market.Spot
		d.InstanceMarketOptions = &ec2types.LaunchTemplateInstanceMarketOptionsRequest{
			MarketType: ec2types.MarketType(t.Market.Type),
			SpotOptions: &ec2types.LaunchTemplateSpotMarketOptionsRequest{
				BlockDurationMinutes:         int32OrNil(s.BlockDurationMinutes),
				InstanceInterruptionBehavior: ec2types.InstanceInterruptionBehavior(s.Interruption),
				MaxPrice:                     stringOrNil(s.MaxPrice)}}
	}
	if m := t.Metadata; m != (MetadataOptions{}) {
		d.MetadataOptions = &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpEndpoint:            ec2types.LaunchTemplateInstanceMetadataEndpointState(m.Endpoint),
			HttpProtocolIpv6:        ec2types.LaunchTemplateInstanceMetadataProtocolIpv6(m.IPv6),
			HttpPutResponseHopLimit: int32OrNil(m.HopLimit),
			HttpTokens:              ec2types.LaunchTemplateHttpTokensState(m.Tokens),
			InstanceMetadataTags:    ec2types.LaunchTemplateInstanceMetadataTagsState(m.InstanceTags)}
	}
	for i, n := range t.NetworkInterfaces {
		s := ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			DeviceIndex: aws.Int32(int32(i)), AssociatePublicIpAddress: &n.PublicIP, DeleteOnTermination: &n.DeleteOnTermination,
			Ipv6AddressCount: int32OrNil(n.IPv6Addresses)}
		for _, g := range n.SecurityGroups {
			s.Groups = append(s.Groups, g.Text())
		}
		d.NetworkInterfaces = append(d.NetworkInterfaces, s)
	}
	if t.Placement.Tenancy != "" {
		d.Placement = &ec2types.LaunchTemplatePlacementRequest{Tenancy: ec2types.Tenancy(t.Placement.Tenancy)}
	}
	for _, s := range t.TagSpecifications {
		d.TagSpecifications = append(d.TagSpecifications, ec2types.LaunchTemplateTagSpecificationRequest{
			ResourceType: ec2types.ResourceType(s.Resource), Tags: ec2Tags(s.Tags)})
	}
	if data := t.UserData.Value().Text(); data != "" {
		d.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(data)))
	}
	return d
}

func blockDeviceData(b BlockDevice) ec2types.LaunchTemplateBlockDeviceMappingRequest {
	out := ec2types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: &b.Device, VirtualName: stringOrNil(b.Virtual)}
	if e := b.EBS; e != (EBS{}) {
		out.Ebs = &ec2types.LaunchTemplateEbsBlockDeviceRequest{
			DeleteOnTermination: &e.DeleteOnTermination, Encrypted: &e.Encrypted, Iops: int32OrNil(e.IOPS), KmsKeyId: stringOrNil(e.KMSKey),
			Throughput: int32OrNil(e.Throughput), VolumeSize: int32OrNil(e.SizeGiB), VolumeType: ec2types.VolumeType(e.Type)}
	}
	return out
}

// templateOf converts a template from a response.
func templateOf(d *ec2types.ResponseLaunchTemplateData) *LaunchTemplate {
	t := &LaunchTemplate{ImageID: aws.ToString(d.ImageId), InstanceType: string(d.InstanceType), KeyName: text(d.KeyName),
		EBSOptimized: aws.ToBool(d.EbsOptimized)}
	for _, b := range d.BlockDeviceMappings {
		t.BlockDevices = append(t.BlockDevices, blockDeviceOf(b))
	}
	if x := d.CreditSpecification; x != nil {
		t.Credits.CPU = aws.ToString(x.CpuCredits)
	}
	if x := d.IamInstanceProfile; x != nil {
		t.Profile = InstanceProfileRef{Name: text(x.Name), ARN: text(x.Arn)}
	}
	if x := d.InstanceMarketOptions; x != nil {
		t.Market.Type = string(x.MarketType)
		if s := x.SpotOptions; s != nil {
			t.Market.Spot = SpotOptions{BlockDurationMinutes: int(aws.ToInt32(s.BlockDurationMinutes)),
				Interruption: string(s.InstanceInterruptionBehavior), MaxPrice: aws.ToString(s.MaxPrice)}
		}
	}
	if x := d.MetadataOptions; x != nil {
		t.Metadata = MetadataOptions{Endpoint: string(x.HttpEndpoint), IPv6: string(x.HttpProtocolIpv6),
			HopLimit: int(aws.ToInt32(x.HttpPutResponseHopLimit)), Tokens: string(x.HttpTokens), InstanceTags: string(x.InstanceMetadataTags)}
	}
	if x := d.Monitoring; x != nil {
		t.Monitoring.Enabled = aws.ToBool(x.Enabled)
	}
	for _, x := range d.NetworkInterfaces {
		t.NetworkInterfaces = append(t.NetworkInterfaces, NetworkInterface{PublicIP: aws.ToBool(x.AssociatePublicIpAddress),
			DeleteOnTermination: aws.ToBool(x.DeleteOnTermination), IPv6Addresses: int(aws.ToInt32(x.Ipv6AddressCount)),
			SecurityGroups: resource.Lits(x.Groups...)})
	}
	if x := d.Placement; x != nil {
		t.Placement.Tenancy = string(x.Tenancy)
	}
	for _, x := range d.TagSpecifications {
		if x.ResourceType == ec2types.ResourceTypeLaunchTemplate { // from an emulator: AWS accepts it only outside of the data
			continue
		}
		t.TagSpecifications = append(t.TagSpecifications, TagSpecification{Resource: string(x.ResourceType), Tags: tagMap(x.Tags)})
	}
	if data, err := base64.StdEncoding.DecodeString(aws.ToString(d.UserData)); err == nil {
		t.UserData = resource.Text(resource.Lit(string(data)))
	}
	return t
}

func blockDeviceOf(b ec2types.LaunchTemplateBlockDeviceMapping) BlockDevice {
	out := BlockDevice{Device: aws.ToString(b.DeviceName), Virtual: aws.ToString(b.VirtualName)}
	if e := b.Ebs; e != nil {
		out.EBS = EBS{DeleteOnTermination: aws.ToBool(e.DeleteOnTermination), Encrypted: aws.ToBool(e.Encrypted),
			IOPS: int(aws.ToInt32(e.Iops)), KMSKey: aws.ToString(e.KmsKeyId), Throughput: int(aws.ToInt32(e.Throughput)),
			SizeGiB: int(aws.ToInt32(e.VolumeSize)), Type: string(e.VolumeType)}
	}
	return out
}
