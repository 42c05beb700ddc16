kops edit instancegroup nodes-us-east-1a --set spec.rootVolumeSize=40
kops update cluster --yes
