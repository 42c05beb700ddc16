package terraform

import (
	"slices"
	"testing"
)

// TestDataFilesOfAnEarlierMainFile checks that files that kops or kOps wrote are recognized by the
// resource that reads them; files that a user added to the module are not in the list.
func TestDataFilesOfAnEarlierMainFile(t *testing.T) {
	main := []byte(`locals {
  cluster_name = "a.example.com"
}
resource "aws_s3_object" "a" {
  content = file("${path.module}/data/aws_s3_object_b.json_content")
}
resource "aws_launch_template" "n" {
  user_data = filebase64("${path.module}/data/aws_launch_template_n_user_data")
  again     = filebase64("${path.module}/data/aws_launch_template_n_user_data")
  mine      = file("${path.module}/data/mine.txt")
  above     = file("${path.module}/data/../aws_s3_object_x")
  below     = file("${path.module}/data/aws_s3_object_x/y")
  other     = file("${path.module}/data/google_compute_instance_x")
}
`)
	if got, want := DataFiles(main), []string{"data/aws_launch_template_n_user_data", "data/aws_s3_object_b.json_content"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !IsMainFile(main) || IsMainFile([]byte(`resource "aws_vpc" "mine" {}`)) || DataFiles(nil) != nil {
		t.Error("a user's own file is taken for a main file, or the other way round")
	}
}
