package rehearsal

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// domain is the domain of all services of AWS.
const domain = ".amazonaws.com"

// serves reports whether a host is one of AWS' services. Load balancers have addresses of
// their own, and registries of images are their publishers'.
func serves(host string) bool {
	return strings.HasSuffix(host, domain) && !strings.HasSuffix(host, ".elb"+domain) && !strings.Contains(host, ".dkr.ecr.")
}

// services passes requests on to the emulator, as they are, and has what they change be
// looked at. What the emulator cannot know is answered here.
func (p *play) services() http.Handler {
	proxy := &httputil.ReverseProxy{Transport: p.emulator.transport, ModifyResponse: p.rewrite, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", emulatorHost, r.In.Host
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		form := parameters(r)
		switch form.Get("Action") {
		case "GetConsoleOutput":
			p.console(w, form.Get("InstanceId"))
			return
		case "DescribeWarmPool":
			p.warmPool(w, form.Get("AutoScalingGroupName"))
			return
		case "DescribeScalingActivities": // which the emulator does not know, and none fails
			w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
			_, _ = io.WriteString(w, `<DescribeScalingActivitiesResponse xmlns="http://autoscaling.amazonaws.com/doc/2011-01-01/"><DescribeScalingActivitiesResult><Activities/></DescribeScalingActivitiesResult></DescribeScalingActivitiesResponse>`) // the client has gone
			return
		case "AttachVolume": // of two that want one device, the second is refused
			p.attaching.Lock()
			defer p.attaching.Unlock()
			if device := form.Get("Device"); p.uses(r.Context(), form.Get("InstanceId"), device) {
				refuse(w, "InvalidParameterValue", "Invalid value '"+device+"' for unixDevice. Attachment point "+device+" is already in use")
				return
			}
		}
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), actionKey{}, form.Get("Action"))))
		if changes(r, form.Get("Action")) {
			p.keeper.Changed()
		}
	})
}

// longest is the longest body that is looked into, in bytes.
const longest = 1 << 20

// parameters returns the parameters of the query protocol, and leaves the body readable.
func parameters(r *http.Request) url.Values {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, longest))
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
	form, perr := url.ParseQuery(string(body))
	if err != nil || perr != nil {
		return nil // the emulator says so
	}
	return form
}

// changes reports whether a request may have changed the state of the play. Objects of buckets do
// not count.
func changes(r *http.Request, action string) bool {
	if action != "" {
		for _, reads := range []string{"Describe", "Get", "List", "AssumeRole"} {
			if strings.HasPrefix(action, reads) {
				return false
			}
		}
		return true
	}
	return strings.HasPrefix(r.Host, "route53.") && r.Method != http.MethodGet
}

// consoleSize is how much of a console AWS keeps: the last 64 KiB.
const consoleSize = 64 << 10

// console answers GetConsoleOutput.
func (p *play) console(w http.ResponseWriter, id string) {
	log, err := p.stage.Machines.Console(id)
	if err != nil || p.seen().instances[id] == nil {
		refuse(w, "InvalidInstanceID.NotFound", "The instance ID '"+id+"' does not exist")
		return
	}
	out := struct {
		XMLName   xml.Name  `xml:"http://ec2.amazonaws.com/doc/2016-11-15/ GetConsoleOutputResponse"`
		RequestID string    `xml:"requestId"`
		Instance  string    `xml:"instanceId"`
		Time      time.Time `xml:"timestamp"`
		Output    string    `xml:"output"`
	}{RequestID: "rehearsal", Instance: id, Time: time.Now().UTC(), Output: base64.StdEncoding.EncodeToString(log[max(0, len(log)-consoleSize):])}
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	_ = xml.NewEncoder(w).Encode(out) // the client has gone
}

// uses reports whether an instance has a volume at a device, which the emulator would not mind.
func (p *play) uses(ctx context.Context, instance, device string) bool {
	filter := func(name, value string) types.Filter {
		return types.Filter{Name: aws.String(name), Values: []string{value}}
	}
	out, err := p.clients.EC2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{Filters: []types.Filter{filter("attachment.instance-id", instance), filter("attachment.device", device)}})
	return err == nil && len(out.Volumes) > 0 // else the emulator says what is wrong
}

// refuse answers as EC2 does.
func refuse(w http.ResponseWriter, code, message string) {
	var text bytes.Buffer
	_ = xml.EscapeText(&text, []byte(message)) // a buffer takes all
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>rehearsal</RequestID></Response>`, code, text.String()) // the client has gone
}
