// Package gce runs kops as its user does, against an emulator of Google Cloud that is validated
// by Google's own description of its APIs.
package gce
