// Package pages holds no code: its tests run the commands of the documentation.
package pages
