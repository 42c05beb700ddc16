run --node-count 2 --admin-access 203.0.113.0/24 --ssh-access 203.0.113.0/24 --kubernetes-version 1.35.4
