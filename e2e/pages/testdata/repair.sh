describe
kops create instancegroup nodes-batch --subnet us-east-1a --edit=false
