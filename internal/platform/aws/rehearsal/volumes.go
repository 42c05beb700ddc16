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

// reconcileVolumes attaches volumes to the machines of their instances, and detaches them from instances
// that no longer exist, as AWS does with a volume that is not deleted with its instance.
func (p *play) reconcileVolumes(ctx context.Context, now snapshot) error {
	machines, err := p.stage.Machines.List()
	if err != nil {
		return err
	}
	var errs []error
	wanted := map[string]volume{}
	for _, v := range now.attached {
		if _, ended := now.ended[v.instance]; ended {
			_, err := p.clients.EC2.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: aws.String(v.id), InstanceId: aws.String(v.instance), Force: aws.Bool(true)})
			errs = append(errs, err)
			p.keeper.Trigger()
		} else {
			wanted[v.id] = v
		}
	}
	for id, at := range p.disks {
		if at != "" && at != wanted[id].instance {
			if err := p.stage.Disks.Unplug(ctx, id); err != nil {
				errs = append(errs, err)
				continue
			}
			p.disks[id] = ""
		}
		if !now.volumes[id] {
			errs = append(errs, p.stage.Disks.Discard(ctx, id))
			delete(p.disks, id)
		}
	}
	for id, v := range wanted {
		if at := p.disks[id]; machines[v.instance] && (at == "" || at == v.instance) {
			p.disks[id] = v.instance
			errs = append(errs, p.stage.Disks.Plug(ctx, rehearsal.Disk{Name: id, GiB: v.gib, Machine: v.instance, Paths: devicePaths(v)}))
		}
	}
	return errors.Join(errs...)
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
