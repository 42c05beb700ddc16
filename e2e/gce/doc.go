// Package gce runs kops as its user does, against a stand-in for Google Cloud that is judged by
// Google's own description of its APIs.
package gce
