package awstest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"kops.local/kops/internal/test/proxy"
)

// refusal returns the answer of a service that refuses a request, in the call's protocol. The formats
// are from the services' API references, "Common errors".
func (c call) refusal(why proxy.Refusal) proxy.Answer {
	status, code, message := http.StatusBadRequest, "", ""
	switch why {
	case proxy.Throttled:
		if code, message = c.throttling(); c.protocol == ec2Query || c.protocol == s3Protocol {
			status = http.StatusServiceUnavailable
		}
	case proxy.Denied:
		status, code, message = http.StatusForbidden, "AccessDenied", "User: arn:aws:iam::123456789012:user/tester is not authorized to perform: "+c.service+":"+c.action
		if c.protocol == ec2Query {
			code, message = "UnauthorizedOperation", "You are not authorized to perform this operation."
		}
	case proxy.OverQuota:
		code, message = strings.TrimPrefix(c.action, "Create")+"LimitExceeded", "The maximum number has been reached."
	}
	return c.errorAnswer(status, code, message)
}

// throttling returns the code and the message of an answer to too many requests.
func (c call) throttling() (code, message string) {
	switch c.protocol {
	case ec2Query:
		return "RequestLimitExceeded", "Request limit exceeded."
	case s3Protocol:
		return "SlowDown", "Please reduce your request rate."
	case jsonTarget, smithyRoute:
		return "ThrottlingException", "Rate exceeded"
	}
	return "Throttling", "Rate exceeded"
}

func (c call) errorAnswer(status int, code, message string) proxy.Answer {
	xml := func(before, after string) proxy.Answer {
		return newAnswer(status, "text/xml", `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+before+"<Code>"+code+"</Code><Message>"+message+"</Message>"+after)
	}
	switch c.protocol {
	case ec2Query:
		return xml("<Response><Errors><Error>", "</Error></Errors><RequestID>refused-by-the-test</RequestID></Response>")
	case query, restXML:
		return xml("<ErrorResponse><Error><Type>Sender</Type>", "</Error><RequestId>refused-by-the-test</RequestId></ErrorResponse>")
	case jsonTarget, smithyRoute:
		a := newAnswer(status, "application/x-amz-json-1.0", fmt.Sprintf(`{"__type":%q,"message":%q}`, code, message))
		a.Header.Set("X-Amzn-Errortype", code)
		return a
	}
	return xml("<Error>", "<RequestId>refused-by-the-test</RequestId></Error>")
}

func newAnswer(status int, contentType, body string) proxy.Answer {
	return proxy.Answer{Status: status, Body: []byte(body), Header: http.Header{
		"Content-Type":   {contentType},
		"Content-Length": {strconv.Itoa(len(body))},
	}}
}
