// Package kinds declares the resources of Google Compute Engine that kops makes: what each is,
// how it is observed, and how a difference is applied.
//
// Objects bear names that say whose they are; what others refer to is a link, in the relative form
// projects/P/regions/R/addresses/N (globally projects/P/global/firewalls/N), whichever host Google's answer names.
//
// It must not know why a cluster needs a resource.
package kinds
