package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"kops.local/kops/internal/platform/rehearsal"
)

// detachEnded detaches volumes from instances that no longer exist, as AWS does with a volume that is
// not deleted with its instance.
func (p *play) detachEnded(ctx context.Context, now snapshot) error {
	var errs []error
	for _, v := range now.attached {
		if _, ended := now.ended[v.instance]; ended {
			_, err := p.clients.EC2.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: aws.String(v.id), InstanceId: aws.String(v.instance), Force: aws.Bool(true)})
			errs = append(errs, err)
			p.keeper.Trigger()
		}
	}
	return errors.Join(errs...)
}

// disks returns the volumes, and the instances to which they are attached.
func (s snapshot) disks() []rehearsal.Disk {
	var out []rehearsal.Disk
	attached := map[string]bool{}
	for _, v := range s.attached {
		if s.instances[v.instance] != nil {
			out = append(out, rehearsal.Disk{Name: v.id, GiB: v.gib, Machine: v.instance, Paths: devicePaths(v)})
			attached[v.id] = true
		}
	}
	for id := range s.volumes {
		if !attached[id] {
			out = append(out, rehearsal.Disk{Name: id})
		}
	}
	return out
}

// devicePaths returns the paths where a current instance type finds a volume: as an NVMe device, by
// the volume's identifier, and by the name that it was attached with (AWS EC2 User Guide, "Map
// Amazon EBS volumes to NVMe device names"). If the name does not end with a letter, which is the
// device's number here, only the path with the identifier exists.
func devicePaths(v volume) []string {
	id := "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_" + strings.ReplaceAll(v.id, "-", "")
	letter := v.device[max(0, len(v.device)-1):]
	if letter < "a" || letter > "z" || path.Dir(v.device) != "/dev" {
		return []string{id}
	}
	return []string{fmt.Sprintf("/dev/nvme%dn1", letter[0]-'a'), id, v.device}
}
