// Package release holds no code: its tests install the packages of a release.
package release
