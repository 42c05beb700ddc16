package rehearsal

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

// metadata returns the handler of instances' metadata service, version 2 (AWS EC2 User Guide, "Use
// the Instance Metadata Service"). As in AWS, callers are identified only by their addresses.
func (p *play) metadata() http.Handler {
	s := &metadataServer{play: p, tokens: map[string]token{}}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /latest/api/token", s.serveToken)
	mux.HandleFunc("GET /latest/", s.serveValue)
	return mux
}

type metadataServer struct {
	play   *play
	mu     sync.Mutex
	tokens map[string]token
}

// token is a session's token.
type token struct {
	instance string
	until    time.Time
}

const (
	// maxSession is the metadata service's limit, in seconds.
	maxSession = 21600
	// maxSessions limits an instance's concurrent sessions; many programs
	// start a new one for each request.
	maxSessions = 4096
)

// caller returns the calling instance. A new instance may not have been observed yet.
func (s *metadataServer) caller(w http.ResponseWriter, r *http.Request) *instance {
	id, ok := s.play.room.Caller(w, r)
	if !ok {
		return nil
	}
	i := s.play.lastSnapshot().instances[id]
	if i == nil {
		http.Error(w, "the instance "+id+" has ended", http.StatusNotFound)
	}
	return i
}

func (s *metadataServer) serveToken(w http.ResponseWriter, r *http.Request) {
	seconds, err := strconv.Atoi(r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds"))
	if err != nil || seconds < 1 || seconds > maxSession || r.Header.Get("X-Forwarded-For") != "" {
		http.Error(w, "the time to live must be from 1 to 21600 seconds", http.StatusBadRequest)
		return
	}
	i := s.caller(w, r)
	if i == nil {
		return
	}
	text, now := rand.Text(), time.Now()
	s.startSession(text, token{aws.ToString(i.InstanceId), now.Add(time.Duration(seconds) * time.Second)}, now)
	w.Header().Set("X-aws-ec2-metadata-token-ttl-seconds", strconv.Itoa(seconds))
	_, _ = w.Write([]byte(text)) // the client may be gone
}

// startSession stores a session, and deletes expired ones. If an instance has too many, the one that
// expires first is deleted.
func (s *metadataServer) startSession(text string, t token, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own, first := 0, ""
	for other, x := range s.tokens {
		switch {
		case now.After(x.until):
			delete(s.tokens, other)
		case x.instance == t.instance:
			if own++; first == "" || x.until.Before(s.tokens[first].until) {
				first = other
			}
		}
	}
	if own >= maxSessions {
		delete(s.tokens, first)
	}
	s.tokens[text] = t
}

func (s *metadataServer) serveValue(w http.ResponseWriter, r *http.Request) {
	i := s.caller(w, r)
	if i == nil {
		return
	}
	s.mu.Lock()
	t := s.tokens[r.Header.Get("X-aws-ec2-metadata-token")]
	s.mu.Unlock()
	if t.instance != aws.ToString(i.InstanceId) || time.Now().After(t.until) {
		http.Error(w, "a session token is required", http.StatusUnauthorized)
		return
	}
	key := strings.TrimPrefix(path.Clean(r.URL.Path), "/latest/")
	text, ok, err := s.value(r.Context(), i, key)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case !ok:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(text)) // the client may be gone
	}
}

// value returns the content of a path below /latest/: a value, or the names in a folder.
func (s *metadataServer) value(ctx context.Context, i *instance, key string) (text string, ok bool, err error) {
	if key == "user-data" {
		text, err = s.play.userData(ctx, aws.ToString(i.InstanceId))
		return text, text != "", err
	}
	const credentials = "meta-data/iam/security-credentials/"
	if role, ok := strings.CutPrefix(key, credentials); ok {
		text, err = s.play.roles.credentials(ctx, s.play, i, role)
		return text, err == nil && text != "", err
	}
	all, err := s.play.describe(ctx, i)
	if err != nil {
		return "", false, err
	}
	if text, ok := all[key]; ok {
		return text, true, nil
	}
	var names []string
	for k := range all {
		if rest, in := strings.CutPrefix(k, key+"/"); in {
			name, _, deeper := strings.Cut(rest, "/")
			if deeper {
				name += "/"
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "\n"), len(names) > 0, nil
}

// describe returns the metadata service's entries for an instance, by path.
func (p *play) describe(ctx context.Context, i *instance) (map[string]string, error) {
	id, zone := aws.ToString(i.InstanceId), ""
	if i.Placement != nil {
		zone = aws.ToString(i.Placement.AvailabilityZone)
	}
	out := map[string]string{}
	put := func(key, value string) {
		if value != "" {
			out["meta-data/"+key] = value
		}
	}
	put("instance-id", id)
	put("ami-id", aws.ToString(i.ImageId))
	put("instance-type", string(i.InstanceType))
	put("hostname", aws.ToString(i.PrivateDnsName))
	put("local-hostname", aws.ToString(i.PrivateDnsName))
	put("local-ipv4", i.Address.String())
	put("public-ipv4", aws.ToString(i.PublicIpAddress))
	put("public-hostname", aws.ToString(i.PublicDnsName))
	put("placement/availability-zone", zone)
	put("placement/region", Region)
	put("services/domain", "amazonaws.com")
	put("services/partition", "aws")
	put("instance-life-cycle", "on-demand")
	if i.Group != "" {
		put("autoscaling/target-lifecycle-state", "InService")
	}
	for n, x := range i.NetworkInterfaces {
		mac := aws.ToString(x.MacAddress)
		if n == 0 {
			put("mac", mac)
		}
		at := "network/interfaces/macs/" + mac + "/"
		put(at+"device-number", strconv.Itoa(n))
		put(at+"interface-id", aws.ToString(x.NetworkInterfaceId))
		put(at+"vpc-id", aws.ToString(i.VpcId))
		put(at+"vpc-ipv4-cidr-block", i.VPC.String())
		put(at+"vpc-ipv4-cidr-blocks", i.VPC.String())
		put(at+"subnet-id", aws.ToString(i.SubnetId))
		put(at+"subnet-ipv4-cidr-block", i.Subnet.String())
		put(at+"local-ipv4s", aws.ToString(x.PrivateIpAddress))
	}
	if o := i.MetadataOptions; o != nil && o.InstanceMetadataTags == types.InstanceMetadataTagsStateEnabled {
		for _, t := range i.Tags {
			put("tags/instance/"+aws.ToString(t.Key), aws.ToString(t.Value))
		}
	}
	role, err := p.roles.role(ctx, p, i)
	if err != nil {
		return nil, err
	}
	put("iam/security-credentials", role)
	if role != "" {
		info, err := json.Marshal(map[string]string{"Code": "Success", "InstanceProfileArn": aws.ToString(i.IamInstanceProfile.Arn), "InstanceProfileId": aws.ToString(i.IamInstanceProfile.Id)})
		if err != nil {
			return nil, err
		}
		put("iam/info", string(info))
	}
	document, err := json.MarshalIndent(map[string]any{"accountId": aws.ToString(i.ownerID()), "architecture": i.Architecture, "availabilityZone": zone, "imageId": i.ImageId, "instanceId": id,
		"instanceType": i.InstanceType, "pendingTime": i.LaunchTime, "privateIp": i.Address, "region": Region, "version": "2017-09-30"}, "", "  ")
	out["dynamic/instance-identity/document"] = string(document)
	return out, err
}

// ownerID returns the account of an instance.
func (i *instance) ownerID() *string {
	for _, n := range i.NetworkInterfaces {
		return n.OwnerId
	}
	return nil
}

// roles caches instances' roles, and their credentials.
type roles struct {
	mu       sync.Mutex
	profiles map[string]string            // instance profile → role
	issued   map[string]issuedCredentials // by instance
}

// issuedCredentials are the credentials of a role that were issued to an instance.
type issuedCredentials struct {
	role, text string
	until      time.Time
}

// early is how long before their expiration credentials are renewed.
const early = 10 * time.Minute

// role returns the role of an instance's profile; "" if it has none.
func (r *roles) role(ctx context.Context, p *play, i *instance) (string, error) {
	if i.IamInstanceProfile == nil {
		return "", nil
	}
	name := path.Base(aws.ToString(i.IamInstanceProfile.Arn))
	r.mu.Lock()
	role, known := r.profiles[name]
	r.mu.Unlock()
	if known {
		return role, nil
	}
	out, err := p.clients.IAM.GetInstanceProfile(ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
	if err != nil {
		return "", fmt.Errorf("get the role of the instance profile %s: %w", name, err)
	}
	if len(out.InstanceProfile.Roles) == 0 {
		return "", nil
	}
	role = aws.ToString(out.InstanceProfile.Roles[0].RoleName)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.profiles == nil {
		r.profiles = map[string]string{}
	}
	r.profiles[name] = role
	return role, nil
}

// credentials returns the credentials of an instance's role, in the metadata service's format; ""
// for a role that the instance does not have.
func (r *roles) credentials(ctx context.Context, p *play, i *instance, role string) (string, error) {
	own, err := r.role(ctx, p, i)
	if err != nil || own != role {
		return "", err
	}
	id, now := aws.ToString(i.InstanceId), time.Now()
	r.mu.Lock()
	have := r.issued[id]
	r.mu.Unlock()
	if have.role == role && now.Before(have.until.Add(-early)) {
		return have.text, nil
	}
	got, err := p.clients.IAM.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(role)})
	if err != nil {
		return "", fmt.Errorf("get the role %s: %w", role, err)
	}
	out, err := p.clients.STS.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: got.Role.Arn, RoleSessionName: aws.String(id)})
	if err != nil {
		return "", fmt.Errorf("assume the role %s: %w", role, err)
	}
	c := out.Credentials
	text, err := json.MarshalIndent(map[string]any{"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": now.UTC().Format(time.RFC3339), "AccessKeyId": c.AccessKeyId,
		"SecretAccessKey": c.SecretAccessKey, "Token": c.SessionToken, "Expiration": aws.ToTime(c.Expiration).UTC().Format(time.RFC3339)}, "", "  ")
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.issued == nil {
		r.issued = map[string]issuedCredentials{}
	}
	r.issued[id] = issuedCredentials{role, string(text), aws.ToTime(c.Expiration)}
	return string(text), nil
}
